"""REST calls for programs, such as `bascule acp`, that run an agent themselves."""
