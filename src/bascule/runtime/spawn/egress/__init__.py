"""What a session may reach of the network by HTTP, and the proxy that holds it to that."""
