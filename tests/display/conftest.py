from support.browser import chromium as chromium
