"""What earlier runs found, by content: a model that is the same in all that counts is not worked on again."""
