from support.browser import chromium as chromium
from support.browser import new_page as new_page
