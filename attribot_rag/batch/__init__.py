"""Attribution of logged answers, from a file into a folder, however many they are."""
