package gcp

// SetPage makes the pages of lists shorter.
func SetPage(c *Cloud, n int64) { c.page = n }

// OfQuota adds to an exhausted quota which one it is.
var OfQuota = ofQuota
