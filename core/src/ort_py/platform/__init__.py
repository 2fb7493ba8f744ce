"""The operating system and native libraries around this process: control groups, processors, threads, forks, the heap.

A leaf room: it may import errors only, and knows no models, sessions or providers. Plug-ins may import `forks`.
"""
