"""The panels that the dashboards are made of, and the frame they share."""

from __future__ import annotations

import re

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import (
    dashboard,
    nodegraph,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import prometheus as prometheus_model

DATASOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
HERE = '{instance=~"$instance"}'
"""Every expression looks at the chosen instances only."""

Panel = stat.Panel | timeseries.Panel | table.Panel | nodegraph.Panel | statetimeline.Panel


def _here(expr: str) -> str:
    return re.sub(r"\$i\b", lambda _: HERE, expr)


def query(expr: str, legend: str = "", ref_id: str = "A") -> prometheus.Dataquery:
    """A query over time; `$i` in it stands for the instance filter."""
    return (
        prometheus.Dataquery()
        .datasource(DATASOURCE)
        .expr(_here(expr))
        .legend_format(legend)
        .ref_id(ref_id)
        .range()
    )


def now(expr: str, ref_id: str) -> prometheus.Dataquery:
    """The newest values as a table."""
    return (
        prometheus.Dataquery()
        .datasource(DATASOURCE)
        .expr(_here(expr))
        .ref_id(ref_id)
        .instant()
        .format(prometheus_model.PromQueryFormat.TABLE)
    )


def figure(
    title: str,
    expr: str,
    *,
    unit: str = "short",
    red_above: float | None = None,
    red_below: float | None = None,
    decimals: int | None = None,
    text: str = "",
) -> stat.Panel:
    """One big number, coloured by whether it is good."""
    good, bad = "green", "red"
    steps = [model.Threshold(value=None, color=bad if red_below is not None else good)]
    if red_above is not None:
        steps.append(model.Threshold(value=red_above, color=bad))
    if red_below is not None:
        steps.append(model.Threshold(value=red_below, color=good))
    panel = (
        stat.Panel()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .unit(unit)
        .height(4)
        .span(4)
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps))
        .with_target(query(expr))
    )
    return panel if decimals is None else panel.decimals(decimals)


def curves(
    title: str,
    *queries: tuple[str, str],
    unit: str = "short",
    span: int = 12,
    text: str = "",
    stacked: bool = False,
    steps: bool = False,
    least: float | None = None,
) -> timeseries.Panel:
    """Lines over time from (expression, legend) pairs."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .unit(unit)
        .height(8)
        .span(span)
        .fill_opacity(20 if stacked else 5)
        .show_points(common.VisibilityMode.NEVER)
        .line_interpolation(
            common.LineInterpolation.STEP_AFTER if steps else common.LineInterpolation.LINEAR
        )
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
    )
    if stacked:
        panel = panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    if least is not None:
        panel = panel.min(least)
    for i, (expr, legend) in enumerate(queries):
        panel = panel.with_target(query(expr, legend, chr(ord("A") + i)))
    return panel


def graph() -> nodegraph.Panel:
    """The learned graph's strongest edges, from nothing but Prometheus.

    The panel wants the frames `nodes` and `edges`, the field names id, source, target, and a
    number as `mainstat`; renaming by a transformation comes too late for it, so the queries
    carry the names as labels.
    """
    nodes = 'count_values by (id, title, subtitle) ("mainstat", round(least_monitor_graph_node_strength$i, 0.01))'
    edges = 'count_values by (id, source, target) ("mainstat", round(least_monitor_graph_edge_weight$i, 0.01))'
    return (
        nodegraph.Panel()
        .title("How causes reach the failures")
        .description(
            "The strongest edges of the newest learned graph; those on reported paths come first. "
            "Empty while the learner has no graph."
        )
        .datasource(DATASOURCE)
        .height(14)
        .span(14)
        .with_target(now(nodes, "nodes"))
        .with_target(now(edges, "edges"))
    )


def incidents() -> table.Panel:
    """Open incidents with a link to each one's page."""
    hidden = {"Time": True, "instance": True, "job": True, "__name__": True}
    hidden |= {f"{name} {i}": True for name in ("Time", "instance", "job") for i in (1, 2, 3, 4)}
    names = {"Value #severity": "severity", "Value #excess": "failures beyond expected"}
    names |= {"Value #ratio": "failing", "Value #opened": "opened", "outcome": "fails"}
    severities: list[object] = [
        {
            "type": "value",
            "options": {
                "0": {"text": "info", "index": 0},
                "1": {"text": "warning", "color": "orange", "index": 1},
                "2": {"text": "critical", "color": "red", "index": 2},
            },
        }
    ]
    link = [{"title": "Open", "url": "${console}/incidents/${__value.raw}", "targetBlank": True}]
    value = model.DynamicConfigValue
    return (
        table.Panel()
        .title("Open incidents")
        .description("The worst first; the link leads to the console, which has the names.")
        .datasource(DATASOURCE)
        .height(8)
        .span(24)
        .with_target(now("least_monitor_incident_severity$i", "severity"))
        .with_target(now("least_monitor_incident_excess_errors$i", "excess"))
        .with_target(now("least_monitor_incident_error_ratio$i", "ratio"))
        .with_target(now("1000 * least_monitor_incident_opened_timestamp_seconds$i", "opened"))
        .with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            model.DataTransformerConfig(
                id_val="organize", options={"excludeByName": hidden, "renameByName": names}
            )
        )
        .override_by_name("incident", [value(id_val="links", value=link)])
        .override_by_name("severity", [value(id_val="mappings", value=severities)])
        .override_by_name("failing", [value(id_val="unit", value="percentunit")])
        .override_by_name("opened", [value(id_val="unit", value="dateTimeAsIso")])
    )


def suspects() -> table.Panel:
    """Suspected causes with their counts, joined by id."""
    hidden = {"Time": True, "instance": True, "job": True, "__name__": True}
    hidden |= {f"{name} {i}": True for name in ("Time", "instance", "job") for i in (1, 2, 3)}
    names = {"Value #score": "score (nats)", "Value #observed": "failures"}
    names |= {"Value #expected": "expected", "id": "cause", "outcome": "fails"}
    link = model.DynamicConfigValue(
        id_val="links",
        value=[
            {
                "title": "Incidents in the console",
                "url": "${console}/incidents",
                "targetBlank": True,
            }
        ],
    )
    return (
        table.Panel()
        .title("Suspected causes of the newest tick")
        .description("Labels carry stable ids, never texts of the log; the console has the names.")
        .datasource(DATASOURCE)
        .height(14)
        .span(10)
        .with_target(now("topk(20, least_monitor_finding_score$i)", "score"))
        .with_target(now("least_monitor_finding_observed_errors$i", "observed"))
        .with_target(now("least_monitor_finding_expected_errors$i", "expected"))
        .with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            model.DataTransformerConfig(
                id_val="organize", options={"excludeByName": hidden, "renameByName": names}
            )
        )
        .override_by_name("cause", [link])
    )


def states(title: str, expr: str, legend: str, text: str) -> statetimeline.Panel:
    """Which of several states held when."""
    return (
        statetimeline.Panel()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .height(6)
        .span(12)
        .with_target(query(expr, legend))
    )


def board(uid: str, title: str, text: str, panels: list[Panel]) -> dashboard.Dashboard:
    """A dashboard with the links, variables and annotations that all of them share."""
    made = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(text)
        .tags(["least-monitor"])
        .timezone("utc")
        .time("now-24h", "now")
        .refresh("1m")
        .readonly()
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
        .with_variable(
            dashboard.QueryVariable("instance")
            .label("Instance")
            .datasource(DATASOURCE)
            .query("label_values(least_monitor_build_info, instance)")
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .include_all(True)
            .multi(True)
            .all_value(".*")
            .current(model.VariableOption(text="All", value="$__all"))
        )
        .with_variable(
            dashboard.TextBoxVariable("console")
            .label("Console")
            .default_value("http://127.0.0.1:9469")
        )
        .link(
            dashboard.DashboardLink("least-monitor")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags(["least-monitor"])
            .keep_time(True)
            .include_vars(True)
        )
        .annotation(
            dashboard.AnnotationQuery()
            .name("Incident opened")
            .datasource(DATASOURCE)
            .enable(True)
            .icon_color("red")
            .expr('increase(least_monitor_incident_changes_total{change="opened"}[5m]) > 0')
        )
    )
    for number, panel in enumerate(panels, 1):
        made = made.with_panel(panel.id(number))  # links to a panel go by its number
    return made
