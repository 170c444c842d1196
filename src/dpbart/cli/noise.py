"""dpbart noise: the noise that a budget requires, computed without a model."""

from __future__ import annotations

import json

import click

CANDIDATES_LOG2 = 20  # "a million" texts in the plain-language reading


@click.command()
@click.option("-e", "--epsilon", type=float, required=True, help="Privacy budget of one text; smaller is more private.")
@click.option("-d", "--delta", type=float, default=1e-5, show_default=True, help="Slack in the guarantee.")
@click.option("--length", type=int, default=20, show_default=True, help="Positions in the latent.")
@click.option("--columns", type=int, default=768, show_default=True, help="Columns kept per position.")
@click.option("--clip", type=float, default=0.1, show_default=True, help="Bound on each entry of the latent.")
@click.option("--mechanism", metavar="NAME", default="gaussian", show_default=True, help="gaussian or laplace.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def noise(epsilon: float, delta: float, length: int, columns: int, clip: float, mechanism: str, as_json: bool) -> None:
    """Show the noise that a budget requires, and how well an attacker can guess.

    \b
        dpbart noise --epsilon 500 --delta 1e-5 --length 20 --columns 182 --clip 0.1
    """
    from dpbart.channels.columns import Columns, ColumnsChannel
    from dpbart.errors import BadParameter
    from dpbart.privacy.clipping import ByValue
    from dpbart.privacy.mechanisms import make_noise

    for name, value in (("length", length), ("columns", columns)):
        if value < 1:
            raise BadParameter(f"{name} must be at least 1, got {value}.")
    chosen = make_noise(mechanism, epsilon=epsilon, delta=delta)
    channel = ColumnsChannel(Columns.all(columns), ByValue(clip), chosen, length)
    facts, norm = channel.facts, chosen.norm
    used, scale = float(facts.figures[f"sensitivity_{norm.lower()}"]), float(facts.figures["scale"])
    two, many = facts.right_of_two, facts.right_of_many(candidates_log2=CANDIDATES_LOG2)
    if as_json:
        figures = {
            "mechanism": mechanism,
            "epsilon": facts.guarantee.epsilon,
            "delta": facts.guarantee.delta,
            "length": length,
            "columns": columns,
            **facts.figures,
            "clip": clip,
            "sensitivity": used,
            "bits": facts.bits,
            "right_of_two": two,
            "right_of_a_million": many,
        }
        click.echo(json.dumps(figures))
        return
    click.echo(f"Guarantee    {facts.guarantee} for one text")
    click.echo(f"Sensitivity  {used:.6f} ({norm}) over {length * columns:,} entries")
    times = f"{scale / clip:.3g} times the bound"
    click.echo(f"Noise        {chosen.scale_name} {scale:.6g} on entries of at most {clip:g}: {times}")
    click.echo(f"Channel      at most {facts.bits:.4g} bits of a text get through")
    click.echo(
        "In words     An attacker who knows that a text is one of two, equally likely, picks the right one at most"
    )
    click.echo(f"             {_percent(two)} of the time (50% is chance); one of a million, {_percent(many)}.")


def _percent(share: float) -> str:
    """A share in per cent. Near certainty gets no digits: it is no longer a useful bound.

    >>> _percent(0.8413), _percent(0.99999999), _percent(1.0)
    ('84.1%', 'practically all', 'practically all')
    """
    return "practically all" if share > 0.999 else f"{100 * share:.3g}%"
