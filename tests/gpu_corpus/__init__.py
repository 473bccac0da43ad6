"""Small functions the way people write them, each with the right answer: is it a GPU task?

``entries.py`` says what an entry is, ``stand_ins.py`` has libraries to import where the real ones are not installed,
``loading.py`` gives all entries. The modules named ``before_*`` were written before the inspector of code was.
"""
