"""The steps of a turn, one per module: functions over the turn's state that can be called alone."""
