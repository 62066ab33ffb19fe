"""What the pages show: pictures made from the runs that are kept."""
