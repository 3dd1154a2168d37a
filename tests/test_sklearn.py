"""ShoreRegressor among scikit-learn's tools, which shore itself never imports."""

import numpy as np
import pytest
from scipy import sparse

import shore
from shore.datasets import make_synthetic

pytest.importorskip("sklearn")
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

DATA = make_synthetic(200, 12, 80, sparsity=3, snr_db=30)
X, Y = DATA.X, DATA.Y


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_equals_ridge(alpha, fit_intercept):
    model = shore.ShoreRegressor(3, n_components=32, alpha=alpha, fit_intercept=fit_intercept, dtype=np.float64)
    model.fit(X, Y)
    ridge = Ridge(alpha=alpha, fit_intercept=fit_intercept).fit(X.astype(np.float64), model.compression_.compress(Y))
    np.testing.assert_allclose(model.coef_, ridge.coef_, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, rtol=1e-6, atol=1e-7)


def test_clone_and_parameters():
    model = shore.ShoreRegressor(4, alpha=3.0, constraint=shore.Box(0, 2), compression="gaussian")
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert again.set_params(alpha=7.0).alpha == 7.0
    with pytest.raises(ValueError, match="'gamma' is not a parameter of ShoreRegressor"):
        model.set_params(gamma=1)
    assert is_regressor(model)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    check_is_fitted(model.fit(X, Y))


def test_pipeline_grid_search_and_cross_validation():
    pipeline = make_pipeline(StandardScaler(), shore.ShoreRegressor(3, n_components=32))
    pipeline.fit(X, Y)
    assert pipeline.predict(X).shape == Y.shape
    search = GridSearchCV(pipeline, {"shoreregressor__alpha": [0.1, 10.0]}, cv=3).fit(X, Y)
    assert search.best_params_["shoreregressor__alpha"] in (0.1, 10.0)
    scores = cross_val_score(shore.ShoreRegressor(3, n_components=32), X, Y.toarray(), cv=3)  # refuses sparse Y itself
    assert np.all(scores > 0.1)


def test_text_to_tags():
    texts = ["sun sea sand", "sea ship", "sand castle", "ship sail wind", "wind and sun", "sail the sea"] * 5
    tags = sparse.csr_array(np.array([[1, 1, 0], [1, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]] * 5))
    model = make_pipeline(TfidfVectorizer(), shore.ShoreRegressor(1, n_components=16, alpha=0.1)).fit(texts, tags)
    assert model.score(texts, tags) == 1.0


KEYWORD = "the check passes y by keyword; the argument is called Y here, as in the paper, and positional calls work"
SPARSE = "the check does dense arithmetic on predictions, which are sparse arrays by design"
EXPECTED_FAILURES = {
    "check_n_features_in_after_fitting": KEYWORD,
    "check_sample_weight_equivalence_on_dense_data": KEYWORD,
    "check_sample_weight_equivalence_on_sparse_data": KEYWORD,
    "check_regressor_data_not_an_array": SPARSE,
    "check_regressors_int": SPARSE,
    "check_regressor_multioutput": "the check wants float64 predictions; they have the dtype of the model, float32",
    "check_complex_data": "complex numbers are refused with a TypeError that names X, not with the check's ValueError",
    "check_dtype_object": "object arrays are refused, also when they happen to hold numbers",
    "check_non_transformer_estimators_n_iter": "max_iter is the decoder's; n_iter_ is the solver's, 0 for direct ones",
}


@pytest.mark.filterwarnings("ignore:Estimator ShoreRegressor does not inherit:UserWarning")
@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix:UserWarning")
def test_check_estimator():
    results = check_estimator(
        shore.ShoreRegressor(), expected_failed_checks=EXPECTED_FAILURES, on_fail=None, on_skip=None
    )
    status = {r["check_name"]: r["status"] for r in results}
    assert [name for name, s in status.items() if s == "failed"] == []
    assert {name for name, s in status.items() if s == "xfail"} == set(EXPECTED_FAILURES)  # none that passes is listed
    assert sum(s == "passed" for s in status.values()) > 40
