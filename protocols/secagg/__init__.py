"""What schemes have in common whose clients' vectors go into one sum: terms, stages, checks of messages, states."""
