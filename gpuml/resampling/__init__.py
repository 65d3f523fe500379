"""What searches and estimators that search by themselves share: splits, stacks, their scores."""
