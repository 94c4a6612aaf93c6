"""What a device is.

- `attributes_and_services.py`: the interface as data: which values an attribute may have, such as the position of a
  blind, and what a service takes. It also runs the code of services, and refuses values beyond an attribute's limits.
- `self_changing_attributes.py`: attributes that count, move or follow from others.
- `air_physics.py`: what devices do to the temperature, humidity and light of a room.
- `device_spec.py`: a product as a whole, and the catalogue of products.
- `device_lint.py`: the checks of device files. `expression_cost.py`: how long the code of a device may take.
- `rooms.py`: rooms, and the quantities of their air.
"""
