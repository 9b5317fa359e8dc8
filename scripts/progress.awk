# Shortens the output of `go build -v`: it counts the packages, and prints all other lines.
/^[A-Za-z0-9.\/_~-]+$/ { if (++n % 100 == 0) { printf "  compiled %d packages\n", n; fflush() }; next }
{ print; fflush() }
END { if (n) printf "  compiled %d packages\n", n }
