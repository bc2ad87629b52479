"""What the edge offers: views of the catalogue, prompts, resources, pages and pins."""
