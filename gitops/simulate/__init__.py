"""What commits would do over days and weeks, by the controller itself: on a sandbox whose clock jumps from one event to the next."""
