package gcp

import (
	"strings"

	compute "google.golang.org/api/compute/v1"
)

// Prefixes of IDs of reservations in the catalogue: machines must name a specific reservation; an open one takes any
// machine that fits (Compute Engine documentation, "Reservations of zonal resources", "Consumption type").
const (
	specificReservation = "res-"
	openReservation     = "open-"
)

// ReservationID returns a reservation's ID in the catalogue. It includes the zone, because names are unique only in a
// zone.
func ReservationID(zone, name string, specific bool) string {
	if specific {
		return specificReservation + zone + "." + name
	}
	return openReservation + zone + "." + name
}

// affinity puts a machine on the reservation for which it was planned. For an open reservation, as for a commitment,
// Google itself chooses the machines, so the request does not name the reservation.
func affinity(id string) *compute.ReservationAffinity {
	rest, specific := strings.CutPrefix(id, specificReservation)
	_, name, ok := strings.Cut(rest, ".")
	switch {
	case specific && ok:
		return &compute.ReservationAffinity{
			ConsumeReservationType: "SPECIFIC_RESERVATION", Key: "compute.googleapis.com/reservation-name",
			Values: []string{name},
		}
	case strings.HasPrefix(id, openReservation):
		return &compute.ReservationAffinity{ConsumeReservationType: "ANY_RESERVATION"}
	}
	return nil
}
