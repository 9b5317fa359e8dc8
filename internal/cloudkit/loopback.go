package cloudkit

import (
	"net/netip"
	"net/url"
)

// Loopback says whether a URL is of this computer itself, where an emulator is.
func Loopback(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}
