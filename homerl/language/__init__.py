"""What is meant, put into words: meanings know no language, grammars know no home."""
