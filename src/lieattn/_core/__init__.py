"""What several rooms need and no user sees: text of others, checked files."""
