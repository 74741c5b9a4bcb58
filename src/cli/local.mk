# The switchyard command.
