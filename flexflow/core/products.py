"""Layers that multiply tensors with each other.

In the examples, ``x`` is a float tensor of shape (64, 16).
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase

from flexflow.core.builder import weight_attributes
from flexflow.core.checks import boolean, integer, real
from flexflow.core.initializers import Initializer
from flexflow.core.layer import Op
from flexflow.core.shapes import ShapeOps
from flexflow.core.tensor import Tensor


class ProductOps(ShapeOps):
    """Methods of FFModel."""

    def batch_matmul(
        self,
        A: Tensor,  # noqa: N803  (FlexFlow's names)
        B: Tensor,  # noqa: N803
        a_seq_length_dim: int | None = None,
        b_seq_length_dim: int | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Products of matrices: (..., n, k) and (..., k, m) -> (..., n, m).

        Args:
            A, B: of one float type and one rank, alike in all dimensions before the last two.
            a_seq_length_dim, b_seq_length_dim: which of their dimensions runs over a sequence: 0
                for the last, 1 for the one before it; None: none. It changes no result.

        Raises:
            ValueError: the shapes do not fit each other, or there is no such dimension.

        >>> a = ffmodel.create_tensor([64, 5, 7], DataType.DT_FLOAT)
        >>> b = ffmodel.create_tensor([64, 7, 3], DataType.DT_FLOAT)
        >>> ffmodel.batch_matmul(a, b).dims
        (64, 5, 3)
        """
        who = name or "batch_matmul"
        dims = {"a_seq_length_dim": a_seq_length_dim, "b_seq_length_dim": b_seq_length_dim}
        given = {k: integer(v, f"{who}: {k}") for k, v in dims.items() if v is not None}
        return self._op("batch_matmul", [A, B], name, **given)

    def einsum(self, equation: str, x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
        """Sums of products of two tensors, as torch.einsum has them.

        Args:
            equation: a letter for each dimension of x, of y and of the result, for example
                "bnk,bkm->bnm"; each letter in two of the three at least, and in none twice. "..."
                stands for all other dimensions, from the right; without "->" the result has these,
                and then the letters of only one of x and y, sorted.

        Raises:
            ValueError: the equation is none, or does not fit the shapes.

        >>> ffmodel.einsum("bi,bj->bij", x, x).dims
        (64, 16, 16)
        """
        if not isinstance(equation, str):
            raise TypeError(f"{name or 'einsum'}: equation is {equation!r}, expected a string")
        spelt = einsum_equation(equation, [x.num_dims, y.num_dims], name or "einsum")
        return self._op("einsum", [x, y], name, equation=spelt)

    def multihead_attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        embed_dim: int,
        num_heads: int,
        kdim: int = 0,
        vdim: int = 0,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kernel_initializer: Initializer | None = None,
        name: str | None = None,
        *,
        causal: bool = False,
        seed: int | None = None,
    ) -> Tensor:
        """softmax(q @ k.T / sqrt(kdim)) @ v in each head, q, k and v being projections of query,
        key and value, and a projection of all heads' results (Vaswani et al., 2017):
        (b, s, ...), (b, t, ...), (b, t, ...) -> (b, s, embed_dim).

        Its weights are ``q_kernel`` (num_heads, kdim, features of query), ``k_kernel``,
        ``v_kernel`` (num_heads, vdim, features of value), ``out_kernel`` (embed_dim, num_heads,
        vdim) and, with ``bias``, ``q_bias`` (num_heads, kdim), ``k_bias``, ``v_bias`` and
        ``out_bias``; reshaped, they are those of torch.nn.MultiheadAttention.

        Args:
            kdim, vdim: of one head; 0: embed_dim / num_heads.
            dropout: in [0, 1), of the softmax's result, in training.
            add_bias_kv, add_zero_attn: of FlexFlow's and PyTorch's interface; must be False.
            kernel_initializer: of the four kernels; None: GlorotUniformInitializer.
            causal: whether query i attends to the keys up to i only.
            seed: of the dropout; None: drawn from the model's seed.

        Raises:
            ValueError: shapes that do not fit, heads that do not divide embed_dim.
            NotImplementedError: add_bias_kv or add_zero_attn.

        >>> words = ffmodel.create_tensor([64, 5, 32], DataType.DT_FLOAT)
        >>> y = ffmodel.multihead_attention(words, words, words, 32, 4, causal=True)
        >>> y.dims, y.owner_op.get_parameters()[0].dims
        ((64, 5, 32), (4, 8, 32))
        """
        who = name or "multihead_attention"
        for option, given in (("add_bias_kv", add_bias_kv), ("add_zero_attn", add_zero_attn)):
            if boolean(given, f"{who}: {option}"):
                raise NotImplementedError(f"{who}: {option} is not supported; leave it False")
        drawn = weight_attributes(kernel_initializer)
        return self._op(
            "multihead_attention",
            [query, key, value],
            name,
            embed_dim=integer(embed_dim, f"{who}: embed_dim"),
            num_heads=integer(num_heads, f"{who}: num_heads"),
            kdim=integer(kdim, f"{who}: kdim"),
            vdim=integer(vdim, f"{who}: vdim"),
            dropout=real(dropout, f"{who}: dropout", 0, 1),
            bias=boolean(bias, f"{who}: bias"),
            causal=boolean(causal, f"{who}: causal"),
            **({} if seed is None else {"seed": integer(seed, f"{who}: seed", 0)}),
            weights={f"{kind}_kernel": drawn for kind in ("q", "k", "v", "out")},
        )

    def lstm(
        self,
        input: Tensor,
        hidden_size: int,
        use_bias: bool = True,
        initial_state: tuple[Tensor, Tensor] | None = None,
        kernel_initializer: Initializer | None = None,
        recurrent_initializer: Initializer | None = None,
        bias_initializer: Initializer | None = None,
        shared_op: Op | Tensor | None = None,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Long short-term memory (Hochreiter and Schmidhuber, 1997) over (b, t, i): the hidden
        states (b, t, hidden_size), and the hidden and the cell state (b, hidden_size) after the
        last step.

        Its weights are ``weight_ih`` (4 * hidden_size, i), ``weight_hh`` (4 * hidden_size,
        hidden_size) and, with ``use_bias``, ``bias_ih`` and ``bias_hh`` (4 * hidden_size,), those
        of torch.nn.LSTM: input, forget, cell and output gate one below the other.

        Args:
            initial_state: hidden and cell state (b, hidden_size) before the first step; None:
                zeros.
            kernel_initializer, recurrent_initializer: of weight_ih and weight_hh; None: Glorot's
                uniform distribution, for each gate.
            bias_initializer: of both biases; None: zeros.
            shared_op: an lstm layer, or an output of it, whose weights are taken.

        Raises:
            ValueError: the input is not of rank 3, a sequence without a step, other states.

        >>> words = ffmodel.create_tensor([64, 5, 32], DataType.DT_FLOAT)
        >>> y, h, c = ffmodel.lstm(words, 8)
        >>> y.dims, h.dims, c.dims
        ((64, 5, 8), (64, 8), (64, 8))
        """
        who = name or "lstm"
        states = () if initial_state is None else initial_state
        if not isinstance(states, (list, tuple)):
            raise TypeError(f"{who}: initial_state is {states!r}, expected two tensors")
        bias = weight_attributes(bias_initializer, argument="bias_initializer")
        y, h, c = self.op(
            "lstm",
            [input, *states],
            name,
            outputs=3,
            hidden_size=integer(hidden_size, f"{who}: hidden_size"),
            use_bias=boolean(use_bias, f"{who}: use_bias"),
            initial_state=initial_state is not None,
            shared_op=shared_op,
            weights={
                "weight_ih": weight_attributes(kernel_initializer),
                "weight_hh": weight_attributes(
                    recurrent_initializer, argument="recurrent_initializer"
                ),
                "bias_ih": bias,
                "bias_hh": bias,
            },
        )
        return y, h, c


def einsum_equation(equation: str, ranks: Sequence[int], who: str) -> str:
    """An equation as the operator takes it, with a letter for each dimension and the result.

    Raises:
        ValueError: it is no equation for tensors of these ranks.

    >>> einsum_equation("...ij,...jk", [3, 2], "einsum")
    'A i j, j k -> A i k'
    """
    sides = "".join(equation.split()).split("->")
    terms = sides[0].split(",")
    if len(terms) != len(ranks) or len(sides) > 2:
        raise ValueError(
            f"{who}: equation is {equation!r}, expected the dimensions of {len(ranks)} tensors and "
            'of the result, such as "ij,jk->ik"'
        )
    others = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks)]
    if any("..." in term and other < 0 for term, other in zip(terms, others)):
        raise ValueError(
            f"{who}: equation {equation!r} has more letters than the tensors have dimensions, "
            f"which are of rank {' and '.join(map(str, ranks))}"
        )
    widest = max([other for term, other in zip(terms, others) if "..." in term], default=0)
    unused = [letter for letter in ascii_uppercase + ascii_lowercase if letter not in equation]
    dots = "".join(unused[:widest])
    spelt = [term.replace("...", dots[widest - other :]) for term, other in zip(terms, others)]
    single = [letter for letter in sides[0] if letter.isalpha() and sides[0].count(letter) == 1]
    result = sides[1].replace("...", dots) if len(sides) > 1 else dots + "".join(sorted(single))
    return ", ".join(map(" ".join, spelt)) + " -> " + " ".join(result)
