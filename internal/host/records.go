package host

import (
	"net/http"
	"strconv"

	"github.com/tradewind-broker/tradewind/internal/host/backup"
)

// serveRecords sends the file of records in its present state. The caller then copies the objects (see package
// backup), so serveRecords prevents their removal until the caller ends the request.
func (h *Host) serveRecords(w http.ResponseWriter, r *http.Request) {
	release := h.objects.Keep()
	defer release()
	_, err := h.file.WriteTo(w, func(size int64) {
		w.Header().Set(backup.SizeHeader, strconv.FormatInt(size, 10))
		w.Header().Set("Content-Type", "application/octet-stream")
	})
	if err != nil {
		h.log.Warn("a backup was not completed", "err", err)
		panic(http.ErrAbortHandler) // otherwise the caller would take a part for the whole file
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	<-r.Context().Done()
}
