"""What makes a launch or a run worth nothing beside what the load generator sees."""
