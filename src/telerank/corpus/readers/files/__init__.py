"""Folders of files: PDF, DOCX, HTML, Markdown and text, read in processes of their own, cut into passages."""
