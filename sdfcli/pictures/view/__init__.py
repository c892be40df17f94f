"""`sdfcli view`: a field as one HTML page, drawn by the browser."""
