"""The hub's store in a database: SQLite by default, PostgreSQL by setting.

SQLAlchemy and what it brings have their one home here and are imported when a store is opened.
"""
