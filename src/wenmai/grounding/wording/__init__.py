"""General words of Chinese and English, as data files: concepts, antonyms, negations, function words, courtesies."""
