"""Does the text that caused an answer tell a right answer from a wrong one?"""
