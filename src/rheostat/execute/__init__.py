"""Decision → the world: executors of a running application, or only a record."""
