"""Worlds with known truth that were written without looking at the detector or at its simulator.

`bookings` is the paper's booking log told anew; `funnel`, `web` and `wide` are other logs. All of
them are drawn by `generation` from a `Domain`, with incidents chosen by `planning`; what the
detector is asked for is decided by an oracle that knows every true rate.
"""
