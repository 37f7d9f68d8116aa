"""PDF files: lines of pages, and paragraphs and headings made of them."""
