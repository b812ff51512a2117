"""`musique-facts`, the language of the small policies for questions over made-up facts."""
