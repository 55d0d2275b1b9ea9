"""The hub's store in a database: SQLite by default, PostgreSQL by setting.

Only this package imports SQLAlchemy and Alembic, and the hub loads it when it creates its store.
"""
