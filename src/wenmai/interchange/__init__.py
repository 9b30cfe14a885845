"""Import and export of conversations: imports can be resumed without duplicates, exports round-trip."""

from wenmai.interchange.exporting import export_lines
from wenmai.interchange.importing import Report, check_choices, import_files
from wenmai.interchange.items import BadLine
from wenmai.interchange.reading import FORMATS

__all__ = ["FORMATS", "BadLine", "Report", "check_choices", "export_lines", "import_files"]
