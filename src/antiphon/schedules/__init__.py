"""Schedules: messages that are sent again and again, at the times of a cron expression in a time zone."""
