"""The terminal's two views, board and session, drawn by Textual. Only the commands that show them import this."""
