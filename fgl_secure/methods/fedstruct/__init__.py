"""FedStruct (ICLR 2025): federated training with structure that clients share.

`program` is what each client runs, on the models of `client` and `models`. By `row_exchange` it comes by its rows of
the adjacency's powers; by `structure` and `queries` embeddings come about; `gradients` says who adds theirs up.
`training` has all clients in one process; `exchange` says which of all this a run has, and under which schemes.
"""
