"""The set that rows are projected onto, as the kernels read it: F, and the outputs each row may use."""


cdef class FeasibleSet:
    """F and the permitted outputs of every row.

    Parameters
    ----------
    kind : int
        One of the enum values of constraint.h.
    low, high, total : float
        Bounds of a box, total of a simplex.
    forbidden : uint8 array of length K or None
        1 for outputs that no row may use.
    indptr, indices : int64 arrays or None
        Sorted outputs per row, as in CSR; one list for all rows if indptr has two entries and `shared`.
    list_allows : bool
        Whether a row may use only the listed outputs, or none of them.
    shared : bool
        Whether the first list holds for every row.
    """

    def __cinit__(self, int kind, double low, double high, double total, forbidden=None,
                  indptr=None, indices=None, bint list_allows=False, bint shared=False):
        self.constraint.kind = kind
        self.constraint.low = low
        self.constraint.high = high
        self.constraint.total = total
        self.has_forbidden = forbidden is not None
        if self.has_forbidden:
            self.forbidden = forbidden
        self.has_list = indptr is not None
        if self.has_list:
            self.indptr = indptr
            self.indices = indices
        self.list_allows = list_allows
        self.list_is_shared = shared

    cdef shore_support support_of(self, int64_t row) noexcept nogil:
        cdef shore_support support
        cdef int64_t which = 0 if self.list_is_shared else row
        # An empty memoryview has no first element to point at: a list of length 0 gets any non-NULL address.
        support.forbidden = &self.forbidden[0] if self.has_forbidden and self.forbidden.shape[0] else NULL
        support.list = NULL
        support.n_list = 0
        support.list_allows = self.list_allows
        if self.has_list:
            support.n_list = self.indptr[which + 1] - self.indptr[which]
            support.list = &self.indptr[0]
            if support.n_list:
                support.list = &self.indices[self.indptr[which]]
        return support
