"""What a turn of a chat service costs, beside bare sqlite3 and other libraries; run by ``make bench``."""
