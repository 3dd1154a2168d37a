import itertools

import dask.array as da
import numpy as np
import pytest
import reference
from dask import delayed
from dask_data import OPTIONS, X, Y, cut, fitted, lazy
from scipy import sparse

import shore
from shore.distributed import predict

SOME = (0, 200, 450, 451, 800, 900)  # Dask arrays leave out chunks without rows
KINDS = [np.asarray, sparse.csr_array]


def computed(client, parts):
    return sparse.vstack(client.gather(client.compute(parts)), format="csr")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m.shore"
    fitted().save(path)
    return path


@pytest.mark.parametrize("options", [{}, {"compression": None}, {"compression": "gaussian", "dtype": np.float64},
                                     {"fit_intercept": True, "decoder": "omp", "constraint": "real"}])  # fmt: skip
@pytest.mark.parametrize("convert", KINDS)
def test_chunks_are_rows_of_predict(client, convert, options):
    model = fitted(**options)
    rows = da.concatenate(
        [
            da.from_delayed(part, (n, 20), meta=convert(X[:0]))
            for part, n in zip(lazy(convert(X), SOME), np.diff(SOME), strict=True)
        ]
    )
    found = predict(model, rows, client=client)
    assert found.chunks == (tuple(np.diff(SOME)), (150,))
    assert isinstance(found._meta, sparse.csr_array)
    assert found.dtype == model.dtype
    expected = model.predict(convert(X))
    reference.assert_same_bits(sparse.csr_array(found.compute()), expected)
    for part, (a, b) in zip(found.to_delayed().ravel(), itertools.pairwise(SOME), strict=True):
        chunk = part.compute()
        reference.assert_canonical(chunk, (b - a, 150), 3, model.dtype)
        reference.assert_same_bits(chunk, sparse.csr_array(expected[a:b]))


def test_lists_give_lists(client, saved):
    expected = fitted().predict(X)
    pairs = [delayed(pair) for pair in zip(cut(X), cut(Y), strict=True)]
    for model in (fitted(), saved, str(saved)):
        for blocks in (lazy(X), client.scatter(cut(X), hash=False), pairs):
            parts = predict(model, blocks, client=client)
            assert len(parts) == 6
            reference.assert_same_bits(computed(client, parts), expected)


def test_nothing_runs_before_it_is_asked_for(client, tmp_path):
    def touch(part):
        (tmp_path / "touched").touch()
        return part

    (part,) = predict(fitted(), [delayed(touch)(X)], client=client)
    chunks = predict(fitted(), da.from_array(X).map_blocks(touch, dtype=X.dtype, meta=X[:0]), client=client)
    assert not list(tmp_path.iterdir())
    part.compute()
    assert (tmp_path / "touched").exists()
    assert chunks.shape == (900, 150)


def test_options_are_those_of_predict(client):
    model = fitted()
    for options in ({"sparsity": 1}, {"allowed": np.arange(40)}, {"denied": np.arange(150) % 2 == 0}):
        found = computed(client, predict(model, lazy(X), client=client, **options))
        reference.assert_same_bits(found, model.predict(X, **options))


def test_sums_of_partial_fit_stay_at_home(client):
    model = shore.ShoreRegressor(**OPTIONS).partial_fit(X, Y)
    reference.assert_same_bits(computed(client, predict(model, lazy(X), client=client)), model.predict(X))


def test_a_file_is_mapped_and_w_is_not_sent(client, tmp_path, monkeypatch):
    """W of 8 MB: from memory it is copied to the workers once, from a file not at all."""
    rng = np.random.default_rng(0)
    wide = sparse.random_array((300, 40_000), density=1e-3, rng=rng, dtype=np.float32, format="csr")
    model = shore.ShoreRegressor(3, n_components=50, solver="cg").fit(wide, Y[:300])
    model.save(tmp_path / "m.shore")
    blocks = [delayed(wide[a : a + 50]) for a in range(0, 300, 50)]
    expected, copied = model.predict(wide), []
    scatter = client.scatter
    monkeypatch.setattr(client, "scatter", lambda *given, **options: [copied.append(1), scatter(*given, **options)][1])
    reference.assert_same_bits(computed(client, predict(tmp_path / "m.shore", blocks, client=client)), expected)
    assert not copied
    held = client.run(
        lambda: [type(model._feature_major.base) for _, model in shore.distributed.workers._mapped.values()]
    )
    assert any(held.values())
    assert all(base is not None for bases in held.values() for base in bases)
    reference.assert_same_bits(computed(client, predict(model, blocks, client=client)), expected)
    assert len(copied) == 1


def test_a_replaced_file_is_mapped_anew(client, tmp_path):
    path = tmp_path / "m.shore"
    for seed in range(6):  # more than are kept
        model = fitted(random_state=seed)
        model.save(path)
        reference.assert_same_bits(computed(client, predict(path, lazy(X), client=client)), model.predict(X))
        model.save(tmp_path / f"{seed}.shore")
        found = predict(tmp_path / f"{seed}.shore", lazy(X), client=client)
        reference.assert_same_bits(computed(client, found), model.predict(X))
    kept = client.run(lambda: len(shore.distributed.workers._mapped))
    assert max(kept.values()) <= 4


def test_half_precision(client, tmp_path):
    fitted().save(tmp_path / "m.shore", weights="float16")
    expected = shore.load(tmp_path / "m.shore").predict(X)
    found = predict(tmp_path / "m.shore", da.from_array(X, chunks=(300, -1)), client=client).compute()
    reference.assert_same_bits(sparse.csr_array(found), expected)
    found = predict(shore.load(tmp_path / "m.shore"), da.from_array(X, chunks=(300, -1)), client=client).compute()
    reference.assert_same_bits(sparse.csr_array(found), expected)


@pytest.mark.parametrize("from_file", [True, False])
def test_written_files_are_whole(client, tmp_path, saved, from_file):
    expected = fitted().predict(X)
    rows = da.from_array(X, chunks=(200, -1))
    names = predict(saved if from_file else fitted(), rows, output=tmp_path / "new" / "found", client=client)
    assert names == sorted(map(str, (tmp_path / "new" / "found").iterdir()))
    assert [name[-14:] for name in names] == [f"part-{i:05d}.npz" for i in range(5)]
    parts = [sparse.load_npz(name) for name in names]
    assert all(isinstance(part, sparse.csr_array) for part in parts)
    reference.assert_same_bits(sparse.vstack(parts, format="csr"), expected)


def test_bad_input_is_refused(client, saved, tmp_path):
    model = fitted()
    with pytest.raises(shore.NotFittedError, match="model: this ShoreRegressor is not fitted yet"):
        predict(shore.ShoreRegressor(), lazy(X), client=client)
    with pytest.raises(TypeError, match="model must be a ShoreRegressor or the name of a model file, got int"):
        predict(3, lazy(X), client=client)
    with pytest.raises(TypeError, match=r"output must be a str, os\.PathLike or None, got 3 of type int"):
        predict(model, lazy(X), client=client, output=3)
    with pytest.raises(FileNotFoundError):
        predict(tmp_path / "none.shore", lazy(X), client=client)
    with pytest.raises(TypeError, match=r"there is ShoreRegressor\.predict\. Got ndarray"):
        predict(model, X, client=client)
    with pytest.raises(ValueError, match="X has 7 features, but ShoreRegressor is expecting 20"):
        predict(model, da.zeros((9, 7)), client=client)
    with pytest.raises(ValueError, match="X must be chunked by rows alone"):
        predict(model, da.zeros((9, 20), chunks=(9, 10)), client=client)
    for name in ("allowed", "denied"):
        with pytest.raises(ValueError, match=f"{name} must be 1-D, the same for all rows"):
            predict(model, lazy(X), client=client, **{name: sparse.csr_array((900, 150))})
    with pytest.raises(ValueError, match="sparsity must be a positive integer"):
        predict(model, lazy(X), client=client, sparsity=0)
    (part,) = predict(saved, [delayed(X[:, :3])], client=client)
    with pytest.raises(ValueError, match="X has 3 features"):
        part.compute()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_rows_in_lists_are_no_pairs(client, n):
    model = fitted()
    blocks = [X[:n].tolist(), tuple(X[:n].tolist()), (X[:n].tolist(), Y[:n].toarray().tolist()), (X[:n], None)]
    found = predict(model, [delayed(lambda block=block: block)() for block in blocks], client=client)
    for part in client.gather(client.compute(found)):
        reference.assert_same_bits(part, model.predict(X[:n].tolist()))
