"""Signal processing: Fourier transforms, the windows that go before them and the mel scale that comes after."""
