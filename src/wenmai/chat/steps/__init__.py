"""The steps of a turn, one a module: functions over the turn's state that can be called alone."""
