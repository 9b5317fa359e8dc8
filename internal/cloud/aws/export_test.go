package aws

// SetPage makes the pages of lists shorter.
func SetPage(c *Cloud, n int32) { c.page = n }
