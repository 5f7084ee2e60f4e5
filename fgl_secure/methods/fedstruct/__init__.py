"""FedStruct (ICLR 2025).

`program` is what each client runs, on the models of `client` and `models`; `row_exchange` is how it comes by its rows of
the adjacency's powers, `structure` and `queries` how embeddings come about, `gradients` who adds theirs up. `training`
has all clients in one process; `exchange` says which of all this a run has, and under which schemes.
"""
