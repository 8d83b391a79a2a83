"""The three dashboards. Expressions need no recording rules, so they work alone."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from dashboards.panels import board, curves, figure, graph, incidents, states, suspects


def root_causes() -> dashboard.Dashboard:
    """What fails, and why."""
    return board(
        "least-monitor-root-causes",
        "Root causes",
        "What fails, how many bookings are hit, and which values lead to it.",
        [
            figure(
                "Open incidents",
                'sum(least_monitor_incidents{state="open",instance=~"$instance"})',
                red_above=1,
            ),
            figure(
                "Acknowledged",
                'sum(least_monitor_incidents{state="acknowledged",instance=~"$instance"})',
            ),
            figure(
                "Critical",
                'sum(least_monitor_unresolved_incidents{severity="critical",instance=~"$instance"})',
                red_above=1,
            ),
            figure("Suspected causes", "count(least_monitor_finding_score$i) or vector(0)"),
            figure(
                "Failures beyond the expected",
                "sum(least_monitor_slice_errors$i) - sum(least_monitor_slice_expected_errors$i)",
                text="In the newest slice, over all outcomes; below zero on a good half hour.",
                decimals=0,
            ),
            figure(
                "Unexplained",
                "max(least_monitor_unexplained_ratio$i)",
                unit="percentunit",
                red_above=0.5,
            ),
            incidents(),
            graph(),
            suspects(),
            curves(
                "Failures, observed and expected",
                ("sum by (outcome) (least_monitor_slice_errors$i)", "{{outcome}}"),
                (
                    "sum by (outcome) (least_monitor_slice_expected_errors$i)",
                    "{{outcome}} expected",
                ),
                steps=True,
                least=0,
            ),
            curves(
                "Evidence for the strongest causes",
                ("topk(10, least_monitor_finding_score$i)", "{{outcome}} ← {{id}} ({{method}})"),
                text="In nats after the price of the search.",
                steps=True,
            ),
        ],
    )


def booking_health() -> dashboard.Dashboard:
    """How well bookings go."""
    return board(
        "least-monitor-booking-health",
        "Booking health",
        "First-attempt success, failures by outcome, and traffic.",
        [
            figure(
                "First-attempt success",
                "min(least_monitor_first_attempt_success_ratio$i)",
                unit="percentunit",
                decimals=2,
            ),
            figure(
                "Success over the day",
                "sum(increase(least_monitor_clean_rows_total$i[1d])) / sum(increase(least_monitor_rows_total$i[1d]))",
                unit="percentunit",
                decimals=2,
            ),
            figure("Bookings, newest slice", "sum(least_monitor_slice_rows$i)", decimals=0),
            figure("Failures, newest slice", "sum(least_monitor_slice_errors$i)", decimals=0),
            figure(
                "Observed over expected",
                "sum(least_monitor_slice_errors$i) / clamp_min(sum(least_monitor_slice_expected_errors$i), 1)",
                red_above=2,
                decimals=2,
            ),
            figure("Data gap", "max(least_monitor_data_gap$i)", red_above=1),
            curves(
                "First-attempt success",
                ("least_monitor_first_attempt_success_ratio$i", "{{instance}}"),
                unit="percentunit",
                steps=True,
            ),
            curves(
                "First-attempt success by outcome",
                ("least_monitor_outcome_success_ratio$i", "{{outcome}}"),
                text="Share of the bookings that did not fail in this way.",
                unit="percentunit",
                steps=True,
            ),
            curves(
                "Failures per booking",
                (
                    "least_monitor_slice_errors$i / on (instance) group_left least_monitor_slice_rows$i",
                    "{{outcome}}",
                ),
                unit="percentunit",
                steps=True,
                least=0,
            ),
            curves(
                "Observed over expected",
                (
                    "least_monitor_slice_errors$i / clamp_min(least_monitor_slice_expected_errors$i, 1)",
                    "{{outcome}}",
                ),
                text="1 is a usual half hour.",
                steps=True,
                least=0,
            ),
            curves(
                "Bookings per slice",
                ("least_monitor_slice_rows$i", "{{instance}}"),
                steps=True,
                least=0,
            ),
            curves(
                "Extra failures of the largest causes",
                (
                    "topk(10, least_monitor_finding_observed_errors$i - least_monitor_finding_expected_errors$i)",
                    "{{outcome}} ← {{id}}",
                ),
                steps=True,
            ),
            curves(
                "Unexplained share of the excess",
                ("least_monitor_unexplained_ratio$i", "{{outcome}}"),
                unit="percentunit",
                steps=True,
                least=0,
            ),
        ],
    )


def monitor_health() -> dashboard.Dashboard:
    """Whether the monitor itself can be trusted."""
    return board(
        "least-monitor-monitor-health",
        "Monitor health",
        "Ticks, lag, learner, notifications, and how often the monitor is wrong.",
        [
            figure(
                "Since the newest slice",
                "time() - max(least_monitor_last_tick_timestamp_seconds$i)",
                unit="s",
                red_above=5400,
                decimals=0,
            ),
            figure(
                "Source lag",
                "max(least_monitor_slice_lag_seconds$i)",
                unit="s",
                red_above=5400,
                decimals=0,
            ),
            figure(
                "Ticks lost, day",
                "sum(increase(least_monitor_ticks_missed_total$i[1d])) + sum(increase(least_monitor_ticks_overrun_total$i[1d]))",
                red_above=1,
                decimals=0,
            ),
            figure(
                "Notifications given up",
                'sum(least_monitor_outbox_notifications{status="parked",instance=~"$instance"}) or vector(0)',
                red_above=1,
            ),
            figure(
                "False alarms, week",
                'sum(increase(least_monitor_incidents_labelled_total{verdict="false",instance=~"$instance"}[1w]))',
                decimals=0,
                text="Incidents that operators labelled false.",
            ),
            figure(
                "Budget for them", "max(least_monitor_false_alarms_budget_per_week$i)", decimals=0
            ),
            curves(
                "False alarms, expected and observed",
                ("sum(increase(least_monitor_expected_false_alarms_total$i[1w]))", "allowed"),
                (
                    'sum(increase(least_monitor_incidents_labelled_total{verdict="false",instance=~"$instance"}[1w]))',
                    "labelled false",
                ),
                text="Over a week; what nobody has judged does not count.",
                least=0,
            ),
            curves(
                "Precision by the operators' labels",
                ("least_monitor_precision_ratio$i", "true of true and false"),
                ("least_monitor_labels$i", "labelled {{verdict}}"),
                text="Expected incidents are left out of the ratio.",
                least=0,
            ),
            curves(
                "Silences and maintenance windows",
                ("least_monitor_silences$i", "{{instance}}"),
                steps=True,
                least=0,
            ),
            curves(
                "Seconds of a tick by stage",
                (
                    "sum by (stage) (increase(least_monitor_tick_stage_seconds_sum$i[2h])) / on () group_left clamp_min(sum(increase(least_monitor_ticks_total$i[2h])), 1)",
                    "{{stage}}",
                ),
                unit="s",
                stacked=True,
                least=0,
            ),
            curves(
                "Lag of the source, age of the newest slice",
                ("least_monitor_slice_lag_seconds$i", "lag"),
                ("time() - least_monitor_last_tick_timestamp_seconds$i", "age of the newest slice"),
                ("time() - least_monitor_watermark_timestamp_seconds$i", "age of the watermark"),
                unit="s",
                least=0,
            ),
            curves(
                "Events per second",
                ("sum by (result) (rate(least_monitor_events_total$i[1h]))", "{{result}}"),
                unit="eps",
                least=0,
            ),
            curves(
                "Rejected records per hour",
                ("sum by (reason) (increase(least_monitor_rejected_total$i[1h]))", "{{reason}}"),
                text="Empty while every record could be understood.",
                least=0,
            ),
            curves(
                "Records kept of which something could not be read, per hour",
                ("sum by (reason) (increase(least_monitor_kept_total$i[1h]))", "{{reason}}"),
                text="undecided: no outcome has a value to judge it by.",
                least=0,
            ),
            states(
                "The source",
                "max by (state) (least_monitor_source_state$i)",
                "{{state}}",
                "Paused: too many records cannot be understood. Away: no broker answers.",
            ),
            curves(
                "Records that wait, by partition",
                (
                    "sum by (topic, partition) (least_monitor_source_lag_records$i)",
                    "{{topic}} {{partition}}",
                ),
                text="There and not taken in. Empty where the source has no partitions.",
                least=0,
            ),
            curves(
                "Dead letters per hour",
                (
                    "sum by (reason) (increase(least_monitor_dead_letters_total$i[1h]))",
                    "{{reason}}",
                ),
                text="Empty while there is none.",
                least=0,
            ),
            states(
                "Who leads",
                "max by (instance) (least_monitor_leader$i)",
                "{{instance}}",
                "One of those that share a store; the others stand by.",
            ),
            curves(
                "Store",
                ("least_monitor_store_up$i", "answers, {{instance}}"),
                (
                    "sum by (trouble) (increase(least_monitor_store_failures_total$i[1h]))",
                    "{{trouble}} per hour",
                ),
                (
                    "sum by (instance) (increase(least_monitor_takeovers_total$i[1h]))",
                    "takeovers per hour, {{instance}}",
                ),
                ("least_monitor_damaged_slices_total$i", "damaged slices since the start"),
                steps=True,
                least=0,
            ),
            states(
                "How fits ended",
                "max by (status) (least_monitor_fit_status$i)",
                "{{status}}",
                "max_steps is no trouble: a warm start spends a fixed number of steps.",
            ),
            states(
                "Learning and gaps",
                'label_replace(max(least_monitor_learning$i), "state", "learning", "", "") or label_replace(max(least_monitor_data_gap$i), "state", "data gap", "", "")',
                "{{state}}",
                "While learning, no verdicts; in a gap, nothing is resolved.",
            ),
            curves(
                "Graph",
                ("least_monitor_graph_nodes$i", "nodes"),
                ("least_monitor_graph_edges$i", "edges"),
                ("least_monitor_graph_rare_nodes$i", "values without a node"),
                steps=True,
                least=0,
            ),
            curves(
                "Learner",
                ("least_monitor_last_fit_steps$i", "steps of the fit"),
                ("least_monitor_fit_delta$i", "δ, the bound on cycles"),
                (
                    "sum by (change) (increase(least_monitor_graph_edges_changed_total$i[1h]))",
                    "edges {{change}}",
                ),
                steps=True,
                least=0,
            ),
            curves(
                "Incident changes per hour",
                (
                    "sum by (change) (increase(least_monitor_incident_changes_total$i[1h]))",
                    "{{change}}",
                ),
                least=0,
            ),
            curves(
                "Notifications",
                (
                    "sum by (notifier, result) (increase(least_monitor_notifications_total$i[1h]))",
                    "{{notifier}} {{result}}",
                ),
                ("least_monitor_outbox_notifications$i", "{{notifier}} {{status}} now"),
                least=0,
            ),
            curves(
                "Memory",
                (
                    "process_resident_memory_bytes$i * on (instance) group_left least_monitor_build_info$i",
                    "{{instance}}",
                ),
                unit="bytes",
                least=0,
            ),
            curves(
                "Processor",
                (
                    "rate(process_cpu_seconds_total$i[5m]) * on (instance) group_left least_monitor_build_info$i",
                    "{{instance}}",
                ),
                text="Cores in use.",
                least=0,
            ),
        ],
    )
