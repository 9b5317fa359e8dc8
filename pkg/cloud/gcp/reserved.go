package gcp

import (
	"strings"

	compute "google.golang.org/api/compute/v1"
)

// What IDs of reservations in the catalogue begin with: one that machines have to name, and one that takes whatever
// fits it (Compute Engine documentation, "Reservations of zonal resources", "Consumption type").
const (
	specificReservation = "res-"
	openReservation     = "open-"
)

// ReservationID is how the catalogue knows a reservation: names are unique in their zone alone.
func ReservationID(zone, name string, specific bool) string {
	if specific {
		return specificReservation + zone + "." + name
	}
	return openReservation + zone + "." + name
}

// affinity has a machine run on the reservation that it was planned on. One that takes what fits it is asked for by
// name as little as a commitment is: it is left to Google then, whose own choice it is.
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
