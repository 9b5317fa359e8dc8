package cloudkit

import (
	"net/netip"
	"net/url"
)

// Loopback reports whether a URL names this computer, as the URL of an emulator does.
func Loopback(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}
