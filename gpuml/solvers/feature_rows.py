r"""Products with blocks whose rows are features: genotype files, wide matrices read by columns.

What is multiplied is the transposed of what is decomposed (names as in `row_products`, with
:math:`\mu`, c and D of rows):

.. math:: C = D (\tilde X - c 1'), \qquad \tilde X = X_0 + \mathrm{diag}(\mu) M

A block has all that its own rows need, so centring and scaling cost no pass over the data.
"""

from gpuml._arrays import Array, namespace
from gpuml.encodings import products
from gpuml.encodings._row_counts import row_counts
from gpuml.encodings.packed import Packed
from gpuml.solvers.row_products import Block, Visit, image_dense, over_rows, visit_dense
from gpuml.solvers.standard import Rule, Standard, Sums, standard_of


def visit(block: Block, Q: Array, rule: Rule) -> tuple[Visit, Array]:
    """What a block adds to ``Z = C' C Q``, ``G = Q' C' C Q``, and its rows of ``C Q``.

    Parameters
    ----------
    block : Packed or array (m_b, n)
        Rows are features.
    Q : array (n, l), float64
    rule : Rule
        Of the features of the block.
    """
    if isinstance(block, Packed):
        return _visit_packed(block, Q, rule)
    work = getattr(namespace(Q), rule.dtype)
    return visit_dense(block, Q, work, lambda rows, part: _standardised(rows, rule.part(part)))


def image(block: Block, W: Array, rule: Rule) -> Array:
    """``C W`` (m_b, l) of a block."""
    xp = namespace(W)
    work = getattr(xp, rule.dtype)
    if isinstance(block, Packed):
        standard = _standard_of_codes(block, W, rule)
        return xp.astype(_image_packed(block, W, standard)[0], work, copy=False)
    return image_dense(block, W, work, lambda rows, part: _standardised(rows, rule.part(part)))


def sums_of(block: Block) -> tuple[Sums, Array]:
    """Sums over each feature of a block, and the shift of their squares; float64 (m_b,)."""
    if isinstance(block, Packed):
        found = Sums(*row_counts(block.data, block.shape[1], block.bits, block.missing))
        return found, _zeros(block.shape[0], found.total)
    xp = namespace(block)

    def of_rows(rows, _part):
        return [_sums(xp.astype(rows, xp.float64, copy=False), xp)]

    sums, shifts = zip(*over_rows(block, of_rows, lambda a, b: a + b, 1), strict=True)
    return Sums(*(xp.concat(column) for column in zip(*sums, strict=True))), xp.concat(shifts)


def transposed_image(block: Block, W: Array, fill: Array | None) -> Array:
    """``X~' W`` (n, l) of a block, float64: nothing is centred or scaled.

    Parameters
    ----------
    block : Packed or array (m_b, n)
        Rows are features.
    W : array (m_b, l), float64
    fill : array (m_b,) or None
        In place of missing values.
    """
    xp = namespace(W)
    if not isinstance(block, Packed):

        def times(rows, part):
            return xp.astype(rows, xp.float64, copy=False).T @ W[part, :]

        return over_rows(block, times, lambda a, b: a + b, W.shape[1])
    if fill is None:
        return products.backward(block, W)[0]
    return _filled(block, W, fill[:, None] * W, xp)


def _filled(block, of_codes, of_missing, xp):
    """``X0' of_codes + M' of_missing``, in one pass over the codes."""
    both = xp.concat([of_codes, of_missing], axis=1)
    codes, marks = products.backward(block, both, True)
    assert marks is not None
    width = of_codes.shape[1]
    return codes[:, :width] + marks[:, width:]


def _standardised(rows, rule):
    xp = namespace(rows)
    work = getattr(xp, rule.dtype)
    standard = Standard()
    if rule.center is not False or rule.scale is not None:
        rows = xp.astype(rows, xp.float64, copy=False)
        sums, shift = _sums(rows, xp)
        standard = standard_of(rule, sums, shift, rows.shape[1])
    if standard.centre is not None:
        rows = rows - standard.centre[:, None]
    if standard.factor is not None:
        rows = rows * standard.factor[:, None]
    return xp.astype(rows, work, copy=False)


def _sums(rows, xp):
    """Sums over each of some float64 rows, and the shift of their squares."""
    ones = xp.ones_like(rows[:, 0])
    shift = xp.mean(rows, axis=1)
    total = shift * rows.shape[1]
    return Sums(ones * rows.shape[1], total, xp.sum((rows - shift[:, None]) ** 2, axis=1)), shift


def _standard_of_codes(block, like, rule):
    sums = None
    if rule.needs_sums or block.missing:
        sums = Sums(*row_counts(block.data, block.shape[1], block.bits, block.missing))
    return standard_of(rule, sums, _zeros(block.shape[0], like), block.shape[1])


def _zeros(n, like):
    xp = namespace(like)
    return xp.zeros(n, dtype=xp.float64, device=like.device)


def _image_packed(block, W, standard):
    """``C W``, and ``X~ W`` with the two of its parts, before anything is subtracted."""
    xp = namespace(W)
    work = getattr(xp, standard.dtype)
    W = xp.astype(W, work, copy=False)
    if standard.fill is None:
        Y = products.forward(block, W)
    else:
        # Two products in one: what belongs to codes, and what belongs to marks of missing values.
        nothing = xp.zeros_like(W)
        parts = products.forward(
            block, xp.concat([W, nothing], axis=1), xp.concat([nothing, W], axis=1)
        )
        Y = parts[:, : W.shape[1]] + standard.fill[:, None] * parts[:, W.shape[1] :]
    Y = xp.astype(Y, xp.float64, copy=False)
    if standard.centre is not None:
        Y = Y - standard.centre[:, None] * xp.sum(xp.astype(W, xp.float64), axis=0)
    if standard.factor is not None:
        Y = standard.factor[:, None] * Y
    return Y, work


def _visit_packed(block, Q, rule):
    xp = namespace(Q)
    standard = _standard_of_codes(block, Q, rule)
    Y, work = _image_packed(block, Q, standard)
    scaled = Y if standard.factor is None else standard.factor[:, None] * Y
    if standard.fill is None:
        Z, _ = products.backward(block, xp.astype(scaled, work, copy=False))
    else:
        parts = (scaled, standard.fill[:, None] * scaled)
        known, missing = (xp.astype(part, work, copy=False) for part in parts)
        Z = _filled(block, known, missing, xp)
    if standard.centre is not None:
        Z = Z - standard.centre @ scaled
    return Visit.of(Z, Y), xp.astype(Y, work, copy=False)
