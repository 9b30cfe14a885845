"""What a turn of a chat service costs, beside bare sqlite3 and three other libraries; run by ``make bench``."""
